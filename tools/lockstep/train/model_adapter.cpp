#include "tools/lockstep/train/model_adapter.h"

#include "lockstep/models/bert_heads.h"
#include "lockstep/models/gpt2.h"
#include "lockstep/models/registry.h"

namespace lockstep {

ModelAdapter::ModelAdapter(std::shared_ptr<Model> model, std::optional<Tokenizer> tokenizer,
                           bool recomputes_activations)
    : model_(std::move(model)), tokenizer_(std::move(tokenizer)), recomputes_activations_(recomputes_activations) {}

ModelAdapter::ModelAdapter(std::shared_ptr<Model> model, std::map<std::string, std::string> files)
    : model_(std::move(model)), files_(std::move(files)) {}

at::Tensor ModelAdapter::forward_on(torch::nn::Module& replica, const Batch& batch) {
  return dynamic_cast<Model&>(replica).forward(batch);
}

LossSum ModelAdapter::loss(const at::Tensor& output, const Batch& batch) const { return model_->loss(output, batch); }

LossSum ModelAdapter::smoothed_loss(const at::Tensor& output, const Batch& batch, double factor) const {
  return model_->smoothed_loss(output, batch, factor);
}

bool ModelAdapter::is_language_model() const {
  return dynamic_cast<const GPT2LMHeadModelImpl*>(model_.get()) != nullptr ||
         dynamic_cast<const BertForMaskedLMImpl*>(model_.get()) != nullptr;
}

at::Tensor ModelAdapter::predictions(const at::Tensor& output) const {
  return is_language_model() ? at::Tensor() : output;
}

std::vector<std::string> ModelAdapter::labels() const { return labels_of(*model_); }

std::map<std::string, std::string> ModelAdapter::files() const {
  std::map<std::string, std::string> files = files_;
  if (tokenizer_) files = tokenizer_->files();
  const std::string config = config_json_of(*model_);
  if (!config.empty()) files["config.json"] = config;
  return files;
}

}  // namespace lockstep
