// Package line is what people type: the verbs of /mcp and /chat with their arguments and their help, how a line is read, and what was
// probably meant by one that cannot be. It is pure; what a verb does stands in bot.
package line
