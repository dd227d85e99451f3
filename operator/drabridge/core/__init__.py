"""What is true and what should happen: pure functions of frozen values."""
