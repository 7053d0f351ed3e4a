#include "lockstep/models/registry.h"

#include <fmt/format.h>

#include <functional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/models/convnet.h"
#include "lockstep/models/mlp.h"

namespace lockstep {
namespace {

struct Entry {
  ModelInfo info;
  std::vector<std::string> options;  // those of ModelOptions that it has, apart from num_labels
  std::function<std::shared_ptr<Model>(const ModelOptions&)> make;
};

std::shared_ptr<Model> make_mlp(const ModelOptions& options, MlpOptions mlp) {
  if (options.features) mlp.features = options.features;
  if (!options.hidden.empty()) mlp.hidden = options.hidden;
  if (options.num_labels) mlp.classes = options.num_labels;
  return std::make_shared<MlpImpl>(mlp);
}

std::shared_ptr<Model> make_convnet(const ModelOptions& options) {
  ConvNetOptions convnet;
  if (options.channels) convnet.channels = options.channels;
  if (options.side) convnet.side = options.side;
  if (options.num_labels) convnet.classes = options.num_labels;
  return std::make_shared<ConvNetImpl>(convnet);
}

const std::vector<Entry>& entries() {
  static const std::vector<Entry> all{
      {{"mlp", "4 hidden layers for NSL-KDD, 122-128-64-32-16-2, 0.03 M parameters"},
       {"features", "hidden"},
       [](const ModelOptions& options) { return make_mlp(options, {}); }},
      {{"mlp-wide", "4 hidden layers of 1602, 7.9 M parameters: 31.6 MB of gradients, for benchmarks"},
       {"features", "hidden"},
       [](const ModelOptions& options) {
         return make_mlp(options, {122, {1602, 1602, 1602, 1602}, 2});
       }},
      {{"convnet", "2 convolutions and a linear layer for 28x28 images, 0.03 M parameters"},
       {"channels", "side"},
       make_convnet},
  };
  return all;
}

void refuse_foreign_options(const Entry& entry, const ModelOptions& options) {
  const std::pair<const char*, bool> given[] = {{"features", options.features != 0},
                                                {"hidden", !options.hidden.empty()},
                                                {"channels", options.channels != 0},
                                                {"side", options.side != 0}};
  for (const auto& [name, is_given] : given) {
    bool known = false;
    for (const std::string& own : entry.options) known = known || own == name;
    if (!is_given || known) continue;
    throw Error(fmt::format("model {} has no option \"{}\"", entry.info.name, name), "make_model",
                fmt::format("leave it out; its options are: num_labels{}{}", entry.options.empty() ? "" : ", ",
                            fmt::join(entry.options, ", ")));
  }
}

}  // namespace

const std::vector<ModelInfo>& registered_models() {
  static const std::vector<ModelInfo> infos = [] {
    std::vector<ModelInfo> list;
    for (const Entry& entry : entries()) list.push_back(entry.info);
    return list;
  }();
  return infos;
}

std::shared_ptr<Model> make_model(const std::string& name, const ModelOptions& options) {
  std::string known;
  for (const Entry& entry : entries()) {
    if (entry.info.name == name) {
      refuse_foreign_options(entry, options);
      return entry.make(options);
    }
    known += (known.empty() ? "" : ", ") + entry.info.name;
  }
  throw Error("there is no model named \"" + name + "\"", "make_model", "choose one of: " + known);
}

}  // namespace lockstep
