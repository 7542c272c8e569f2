"""Fakes of public interfaces, and builders of wheels, for tests of wheelfit and of providers."""
