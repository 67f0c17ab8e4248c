"""Image models: augmentation and pretrained bases."""
