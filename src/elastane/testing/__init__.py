"""What tests of policies and engines are made of: conformance suites to inherit, and small worlds to run them in."""
