"""Tests of policies and engines inherit conformance suites, and run them in the small worlds here."""
