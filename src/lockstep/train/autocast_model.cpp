#include "lockstep/train/autocast_model.h"

#include <utility>

#include "lockstep/detail/tensor/autocast.h"
#include "lockstep/train/batch_device.h"

namespace lockstep {
namespace {

class AutocastModel : public TrainableModel {
 public:
  AutocastModel(std::shared_ptr<TrainableModel> model, const MixedPrecision& precision, c10::DeviceType device)
      : model_(std::move(model)), precision_(precision), device_(device) {}

  at::Tensor forward(const Batch& batch) override {
    return in_precision([&] { return model_->forward(batch); });
  }
  at::Tensor forward_on(torch::nn::Module& replica, const Batch& batch) override {
    return in_precision([&] { return model_->forward_on(replica, batch); });
  }

  ModuleTensors tensors() override { return model_->tensors(); }
  void set_training(bool on) override { model_->set_training(on); }
  std::shared_ptr<torch::nn::Module> module() override { return model_->module(); }
  LossSum loss(const at::Tensor& output, const Batch& batch) const override { return model_->loss(output, batch); }
  LossSum smoothed_loss(const at::Tensor& output, const Batch& batch, double factor) const override {
    return model_->smoothed_loss(output, batch, factor);
  }
  at::Tensor predictions(const at::Tensor& output) const override { return model_->predictions(output); }
  bool is_decayed(const std::string& name) const override { return model_->is_decayed(name); }
  double floating_point_ops(const Batch& batch) const override { return model_->floating_point_ops(batch); }
  bool recomputes_activations() const override { return model_->recomputes_activations(); }
  bool meets_ranks_in_loss() const override { return model_->meets_ranks_in_loss(); }
  std::map<std::string, std::string> files() const override { return model_->files(); }

 private:
  template <typename Forward>
  at::Tensor in_precision(const Forward& forward) {
    const Autocast autocast(device_, precision_.dtype, precision_.autocast);
    const at::Tensor output = forward();
    return output.scalar_type() == precision_.dtype ? output.to(at::kFloat) : output;
  }

  std::shared_ptr<TrainableModel> model_;
  MixedPrecision precision_;
  c10::DeviceType device_;
};

}  // namespace

std::shared_ptr<TrainableModel> with_precision(std::shared_ptr<TrainableModel> model, const MixedPrecision& precision) {
  if (!precision.autocast) return model;
  const c10::DeviceType device = device_of(*model).type();
  check_mixed_precision(precision, device, "Trainer");
  return std::make_shared<AutocastModel>(std::move(model), precision, device);
}

}  // namespace lockstep
