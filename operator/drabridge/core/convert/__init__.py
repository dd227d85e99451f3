"""Manifests with extended resources -> manifests with claims, and back, as changes of their text.

Pure: text and trees in, text and findings out. Nothing is dumped anew: each change is computed from where nodes stand
in the text, so all that is not concerned survives byte for byte.
"""
