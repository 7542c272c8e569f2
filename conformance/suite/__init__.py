"""The parts of the conformance suite; standard library only."""
