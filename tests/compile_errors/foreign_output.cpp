// error: it is not known which tensors this type holds: give it a member
struct VAEOutput {
  at::Tensor reconstruction;
};
struct AutoEncoder : torch::nn::Module {
  VAEOutput forward(const at::Tensor& x) { return {x}; }
};
int main() {
  auto model = std::make_shared<AutoEncoder>();
  lockstep::DistributedDataParallel ddp(model);
  ddp(at::Tensor());
}
