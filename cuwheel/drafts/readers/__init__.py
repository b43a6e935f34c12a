"""What a source's files state: metadata, setup.py and CMake as syntax trees; nothing of it is run.

Called by `drafts`, and by `updates`, which compares two sources. Face: `survey.survey_source`.
"""
