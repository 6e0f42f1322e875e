"""What the `[model]` sections of several systems check."""


def check_width(model_dim: int, num_heads: int) -> None:
    """Refuse a width that heads or sinusoids cannot share."""
    if model_dim % num_heads or model_dim % 2:
        what = f"model_dim ({model_dim}) must be even and a multiple of num_heads ({num_heads})"
        raise ValueError(what, f"e.g. model_dim = {2 * num_heads * max(1, model_dim // (2 * num_heads))}")
