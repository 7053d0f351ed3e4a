// error: a module by value cannot be wrapped, since a copy of it would be: write `auto model = std::make_shared
int main() {
  Net model;
  lockstep::DistributedDataParallel ddp(model);
}
