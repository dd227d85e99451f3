"""Our API: custom resources as pydantic models, and the definitions generated from them."""
