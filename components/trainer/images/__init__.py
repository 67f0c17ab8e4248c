"""Image models: augmentation, pretrained bases and serving of encoded images."""
