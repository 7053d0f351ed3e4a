// error: Accelerator::prepare takes modules
int main() {
  auto optimizer = std::make_unique<torch::optim::Adam>(std::vector<at::Tensor>{});
  lockstep::Accelerator accelerator;
  auto [prepared] = accelerator.prepare(optimizer);
}
