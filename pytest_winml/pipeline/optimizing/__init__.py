"""How a graph is optimized: by ONNX Runtime with all but the named transformers off, by fusions, by rewrites."""
