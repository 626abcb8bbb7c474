"""Small stand-ins for the world around the controller, under the same contract suites as the real thing."""
