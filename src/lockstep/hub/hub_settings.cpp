#include "lockstep/hub/hub_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/environment.h"
#include "lockstep/base/error.h"
#include "lockstep/base/files/regular_file.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kMostTokenBytes = 4096;

// A path as a user writes it in a variable: ~ is the home folder.
std::string expanded(const std::string& path) {
  if (path != "~" && path.rfind("~/", 0) != 0) return path;
  return env_string("HOME").value_or("") + path.substr(1);
}

std::string home_of_hub() {
  if (const auto home = env_string("HF_HOME")) return expanded(*home);
  return expanded(env_string("XDG_CACHE_HOME").value_or("~/.cache")) + "/huggingface";
}

std::string clean(const std::string& token, const std::string& source) {
  const std::size_t begin = token.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  const std::string text = token.substr(begin, token.find_last_not_of(" \t\r\n") - begin + 1);
  // Anything else could end the header that carries it.
  const bool is_printable = std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!is_printable || text.size() > kMostTokenBytes) {
    throw Error("the access token has characters that a token cannot have", source,
                "copy it again from https://huggingface.co/settings/tokens");
  }
  return text;
}

void read_token(HubSettings& settings) {
  if (env_bool("HF_HUB_DISABLE_IMPLICIT_TOKEN").value_or(false)) return;
  for (const char* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}) {
    settings.token = clean(env_string(name).value_or(""), name);
    settings.token_source = name;
    if (!settings.token.empty()) return;
  }
  settings.token_source = expanded(env_string("HF_TOKEN_PATH").value_or(home_of_hub() + "/token"));
  if (!std::filesystem::exists(settings.token_source)) return;
  settings.token = clean(read_regular_file(settings.token_source, kMostTokenBytes), settings.token_source);
}

std::string endpoint() {
  std::string url = env_string("HF_ENDPOINT").value_or(HubSettings().endpoint);
  while (!url.empty() && url.back() == '/') url.pop_back();
  if (url.rfind("https://", 0) == 0 || url.rfind("http://", 0) == 0) return url;
  throw Error("\"" + url + "\" is not an address of a Hub", "HF_ENDPOINT",
              "give an address that begins with https:// or http://, or unset the variable");
}

}  // namespace

HubSettings HubSettings::from_environment() {
  HubSettings settings;
  settings.endpoint = lockstep::endpoint();
  read_token(settings);
  const auto cache = env_string("HF_HUB_CACHE");
  const auto older_cache = env_string("HUGGINGFACE_HUB_CACHE");
  settings.cache = expanded(cache ? *cache : older_cache ? *older_cache : home_of_hub() + "/hub");
  const auto offline = env_bool("HF_HUB_OFFLINE");
  settings.is_offline = offline ? *offline : env_bool("TRANSFORMERS_OFFLINE").value_or(false);
  return settings;
}

}  // namespace lockstep
