// error: a module by value cannot be wrapped
int main() {
  Net model;
  lockstep::Accelerator accelerator;
  auto [prepared] = accelerator.prepare(model);
}
