"""Huawei's Ascend NPUs, their driver and CANN."""
