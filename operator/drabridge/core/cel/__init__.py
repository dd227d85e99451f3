"""DRA's CEL: parse, check, compile to Python functions, library, cost."""
