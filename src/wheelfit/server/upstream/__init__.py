"""Serve what other indexes have: mirrors of them, and several indexes as one."""
