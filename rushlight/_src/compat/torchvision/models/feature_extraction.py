"""Features of inner layers, by names of nodes."""
from ...absent import absent

globals().update(absent("torchvision.models.feature_extraction", "register forward hooks on the layers instead",
                        "create_feature_extractor get_graph_node_names NodePathTracer"))
