// error: a module by value cannot be wrapped
int main() {
  Net model;
  lockstep::ready(model, lockstep::ParallelContext::from_env());
}
