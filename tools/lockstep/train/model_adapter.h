#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/text/tokenizer.h"
#include "lockstep/models/model.h"
#include "lockstep/train/trainable_model.h"

namespace lockstep {

/// A model of the registry, or of a Hugging Face folder, in the form that the trainer takes. Saved folders contain its
/// config.json and its tokenizer's files, or the other files that a model needs to read its input.
class ModelAdapter : public TrainableModel {
 public:
  /// @param tokenizer  saved with the model; nothing: the model has none
  ModelAdapter(std::shared_ptr<Model> model, std::optional<Tokenizer> tokenizer, bool recomputes_activations);
  /// A model of inputs other than texts. @param files  saved with it: name and content
  ModelAdapter(std::shared_ptr<Model> model, std::map<std::string, std::string> files);

  ModuleTensors tensors() override { return module_tensors(*model_); }
  void set_training(bool on) override { model_->train(on); }
  at::Tensor forward(const Batch& batch) override { return model_->forward(batch); }
  std::shared_ptr<torch::nn::Module> module() override { return model_; }
  at::Tensor forward_on(torch::nn::Module& replica, const Batch& batch) override;
  LossSum loss(const at::Tensor& output, const Batch& batch) const override;
  LossSum smoothed_loss(const at::Tensor& output, const Batch& batch, double factor) const override;
  /// Undefined for language models: their loss is their metric, and their scores are large.
  at::Tensor predictions(const at::Tensor& output) const override;
  double floating_point_ops(const Batch& batch) const override { return model_->floating_point_ops(batch); }
  bool recomputes_activations() const override { return recomputes_activations_; }
  std::map<std::string, std::string> files() const override;

  Model& model() { return *model_; }
  /// Names of a text classifier's labels; empty for other models.
  std::vector<std::string> labels() const;
  bool is_language_model() const;

 private:
  std::shared_ptr<Model> model_;
  std::optional<Tokenizer> tokenizer_;
  bool recomputes_activations_ = false;
  std::map<std::string, std::string> files_;
};

}  // namespace lockstep
