#pragma once

#include <string>

namespace lockstep {

/// Where the Hugging Face Hub is and how it knows the user, from the variables of its own library (huggingface_hub).
struct HubSettings {
  std::string endpoint = "https://huggingface.co";  ///< HF_ENDPOINT, without slashes at its end
  std::string token;         ///< HF_TOKEN, else HUGGING_FACE_HUB_TOKEN, else the file below; empty: none
  std::string token_source;  ///< the variable's name or the file's path
  std::string cache;         ///< HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else "hub" in HF_HOME
  bool is_offline = false;   ///< HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE: nothing is sent

  /// The token's file is HF_TOKEN_PATH, else "token" in HF_HOME; HF_HOME is ~/.cache/huggingface if it is not set. With
  /// HF_HUB_DISABLE_IMPLICIT_TOKEN there is no token.
  /// @throws Error  if a variable or the token's file cannot be read
  static HubSettings from_environment();
};

}  // namespace lockstep
