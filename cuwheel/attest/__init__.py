"""Who else built a wheel and got its bytes: signed statements, their keys, the policy for them.

Called by the sessions `rebuild`, `attestations` and `install`. Face: `check.check_policy`,
`check.find_statements`, `policy.read_policy`, `keys`, `verification`.
"""
