"""A checkpoint as a service; FastAPI and uvicorn are known here alone."""
