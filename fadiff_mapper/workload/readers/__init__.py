"""Readers of networks: network files, folders of Timeloop problems, ONNX models, PyTorch modules."""
