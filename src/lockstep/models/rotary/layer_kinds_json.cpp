#include "lockstep/models/rotary/layer_kinds_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace lockstep {
namespace {

constexpr const char* kSlides = "sliding_attention";
constexpr const char* kSeesAll = "full_attention";

// A list with one entry for each layer; empty if the file has none.
std::vector<nlohmann::json> list_of_layers(const ConfigFile& file, const char* key, std::int64_t layers) {
  if (!file.has(key)) return {};
  const nlohmann::json& list = file.json().at(key);
  if (!list.is_array() || static_cast<std::int64_t>(list.size()) != layers) {
    file.refuse(key, "is not a list with an entry for each layer", fmt::format("give {} entries", layers));
  }
  return list.get<std::vector<nlohmann::json>>();
}

std::vector<bool> listed_windows(const ConfigFile& file, const RotarySettings& settings) {
  std::vector<bool> slides;
  for (const nlohmann::json& type : list_of_layers(file, "layer_types", settings.num_hidden_layers)) {
    if (type != kSlides && type != kSeesAll) {
      file.refuse("layer_types", fmt::format("has {}, which is not supported", type.dump()),
                  fmt::format("only models whose layers are {} or {} can be loaded", kSeesAll, kSlides));
    }
    slides.push_back(type == kSlides);
  }
  return slides;
}

void read_layers_without_rope(const ConfigFile& file, RotarySettings& settings) {
  settings.layers_without_rope.clear();
  const auto listed = list_of_layers(file, "no_rope_layers", settings.num_hidden_layers);
  const std::int64_t interval = file.integer({"no_rope_layer_interval"}, kNoRopeInterval, 1, ConfigFile::kMaxSize);
  for (std::int64_t i = 0; i < settings.num_hidden_layers; ++i) {
    if (listed.empty()) {
      settings.layers_without_rope.push_back((i + 1) % interval == 0);
      continue;
    }
    const nlohmann::json& has_rope = listed[static_cast<std::size_t>(i)];
    if (has_rope != 0 && has_rope != 1) file.refuse("no_rope_layers", "has " + has_rope.dump(), "give 1 or 0");
    settings.layers_without_rope.push_back(has_rope == 0);
  }
}

// What a file that lists no layers means by a window.
std::vector<bool> default_windows(const ConfigFile& file, const RotarySettings& settings) {
  constexpr std::int64_t kMaxWindowLayers = 28;
  if (!settings.layers_without_rope.empty()) return settings.layers_without_rope;
  const std::int64_t first = file.integer({"max_window_layers"}, kMaxWindowLayers, 0, ConfigFile::kMaxSize);
  std::vector<bool> slides;
  for (std::int64_t i = 0; i < settings.num_hidden_layers; ++i) slides.push_back(i >= first);
  return slides;
}

}  // namespace

void read_layer_kinds(const ConfigFile& file, const RotaryLayout& layout, RotarySettings& settings) {
  using Window = RotaryLayout::Window;
  if (layout.reads_no_rope_layers) read_layers_without_rope(file, settings);
  const std::vector<bool> listed = listed_windows(file, settings);
  const bool any_listed = std::find(listed.begin(), listed.end(), true) != listed.end();
  if (layout.window == Window::EveryLayer || layout.window == Window::None) {
    if (any_listed) {
      file.refuse("layer_types", "has sliding_attention, which Hugging Face's class of this model ignores",
                  "leave it out, or use a model_type whose layers differ");
    }
    if (layout.window == Window::None) return;
  }
  if (layout.listed_window) settings.sliding_window = layout.listed_window;
  if (file.json().contains("sliding_window")) settings.sliding_window.reset();
  if (file.has("sliding_window"))
    settings.sliding_window = file.integer({"sliding_window"}, 0, 1, ConfigFile::kMaxSize);
  if (layout.window == Window::EveryLayer) return;
  if (!file.boolean({"use_sliding_window"}, false)) settings.sliding_window.reset();
  if (any_listed && !settings.sliding_window) {
    file.refuse("layer_types", "has sliding_attention, but there is no window",
                "give use_sliding_window and sliding_window, or full_attention");
  }
  if (settings.sliding_window) settings.sliding_layers = listed.empty() ? default_windows(file, settings) : listed;
}

void write_layer_kinds(const RotarySettings& settings, const RotaryLayout& layout, nlohmann::json& json) {
  using Window = RotaryLayout::Window;
  const auto count = static_cast<std::size_t>(settings.num_hidden_layers);
  if (layout.reads_no_rope_layers) {
    auto list = nlohmann::json::array();
    for (std::size_t i = 0; i < count; ++i) list.push_back(layer_rotates(settings, layout, i) ? 1 : 0);
    json["no_rope_layers"] = std::move(list);
  }
  if (layout.window == Window::None) return;
  json["sliding_window"] = settings.sliding_window ? nlohmann::json(*settings.sliding_window) : nlohmann::json();
  if (layout.window == Window::EveryLayer) return;
  json["use_sliding_window"] = settings.sliding_window.has_value();
  auto types = nlohmann::json::array();
  for (std::size_t i = 0; i < count; ++i) types.push_back(layer_slides(settings, layout, i) ? kSlides : kSeesAll);
  json["layer_types"] = std::move(types);
}

}  // namespace lockstep
