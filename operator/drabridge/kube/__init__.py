"""The one door to the API server."""
