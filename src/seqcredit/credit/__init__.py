"""What does the paper say? Its values, losses, proposals and exact solutions, as pure functions of tensors."""
