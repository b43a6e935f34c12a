"""Any wheel judged: what it holds, who supplies what it needs, which rules it breaks.

Called by the session `audit` and the stage of that name. Face: `scan.scan_wheel` reads a wheel,
`verdict.audit_wheel` judges it, `report` prints, `findings` lists every rule.
"""
