"""The rules of the audit: of the wheel as an archive, of its libraries, of who supplies them.

Called by `verdict`, which gathers what they find. Face: one function a module. What a rule is
called and how severe it is stands in `audit.findings`.
"""
