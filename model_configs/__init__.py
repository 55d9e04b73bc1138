"""Published model shapes as Google's JSON files; `--model_config albert_base_v2` names one."""
