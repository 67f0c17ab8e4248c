"""Chicago taxi: predicts whether the passenger tips well."""
