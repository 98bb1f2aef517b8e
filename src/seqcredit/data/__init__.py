"""What is predicted? Raw text becomes a prepared folder, and a prepared folder becomes batches."""
