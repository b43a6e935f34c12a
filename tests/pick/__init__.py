"""Tests of `cuwheel.pick`."""
