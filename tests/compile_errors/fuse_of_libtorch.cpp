// error: fuse takes one of Lockstep's optimizers: lockstep::SGD, lockstep::Adam or lockstep::AdamW
int main() {
  auto model = std::make_shared<Net>();
  lockstep::DistributedDataParallel ddp(model);
  torch::optim::Adam optimizer(model->parameters());
  ddp.fuse(optimizer);
}
