"""Tests of `cuwheel.lab.day_zero`."""
