"""What networks are read from: network files, folders of Timeloop problems, ONNX models, PyTorch modules."""
