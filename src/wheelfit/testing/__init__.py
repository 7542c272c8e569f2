"""Fakes of the public interfaces and a wheel builder, for our tests and for provider authors."""
