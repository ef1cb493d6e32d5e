"""Reading ONNX graphs: what goes in and out, which files belong to a model, which nodes stand at the boundary."""
