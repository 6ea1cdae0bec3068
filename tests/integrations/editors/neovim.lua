-- Opens the file in KL_FILE with the server, applies the first quick fix of its second line, and
-- writes what it saw to KL_OUT as JSON. Works from Neovim 0.7 (start_client) to 0.11 (start).
local seen = { version = tostring(vim.version().major) .. "." .. tostring(vim.version().minor) }
vim.cmd("edit " .. vim.fn.fnameescape(os.getenv("KL_FILE")))
local config = {
  name = "kernel-lint",
  cmd = { os.getenv("KL_PYTHON"), "-m", "kernel_lint", "server" },
  root_dir = vim.fn.getcwd(),
}
local client
if vim.lsp.start then
  client = vim.lsp.start(config)
else
  client = vim.lsp.start_client(config)
  vim.lsp.buf_attach_client(0, client)
end

local function codes()
  local found = {}
  for _, d in ipairs(vim.diagnostic.get(0)) do
    table.insert(found, string.format("%d:%d %s", d.lnum + 1, d.col + 1, d.code or "?"))
  end
  table.sort(found)
  return found
end

local function has(code)
  for _, text in ipairs(codes()) do
    if text:find(code, 1, true) then
      return true
    end
  end
  return false
end

vim.wait(90000, function() return has("KL102") end, 20)
seen.before = codes()
local params = {
  textDocument = { uri = vim.uri_from_bufnr(0) },
  range = { start = { line = 1, character = 0 }, ["end"] = { line = 1, character = 0 } },
  context = { diagnostics = {}, only = { "quickfix" } },
}
local answers = vim.lsp.buf_request_sync(0, "textDocument/codeAction", params, 60000)
local action = answers and answers[client] and answers[client].result and answers[client].result[1]
seen.title = action and action.title or vim.inspect(answers)
if action then
  vim.lsp.util.apply_workspace_edit(action.edit, "utf-16")
end
seen.lines = vim.api.nvim_buf_get_lines(0, 0, -1, false)
vim.wait(60000, function() return not has("KL102") end, 20)
seen.after = codes()
seen.saved = vim.fn.readfile(os.getenv("KL_FILE"))
vim.fn.writefile({ vim.fn.json_encode(seen) }, os.getenv("KL_OUT"))
vim.cmd("qa!")
