"""Which pods to move so that others fit, or sit closer, or less lies idle in vain."""
