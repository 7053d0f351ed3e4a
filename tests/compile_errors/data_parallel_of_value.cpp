// error: a module by value cannot be wrapped
int main() {
  Net model;
  lockstep::DataParallel dp(model);
}
