#include "lockstep/base/files/accelerate_config_path.h"

#include "lockstep/base/environment.h"

namespace lockstep {

std::string accelerate_config_path() {
  const char* const file = "/accelerate/default_config.yaml";
  if (const auto home = env_string("HF_HOME")) return *home + file;
  if (const auto cache = env_string("XDG_CACHE_HOME")) return *cache + "/huggingface" + file;
  if (const auto user = env_string("HOME")) return *user + "/.cache/huggingface" + file;
  return "";
}

}  // namespace lockstep
