// error: what is to be wrapped is not a module
int main() {
  int model = 0;
  lockstep::DistributedDataParallel ddp(model);
}
