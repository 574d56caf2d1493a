"""The built-in preflight checks, one module with one hook each."""
