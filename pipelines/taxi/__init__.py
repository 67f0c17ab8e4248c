"""Chicago taxi: will the passenger tip well?"""
