/** Imports a package. Skips the test if it is not installed. */
export async function optional(context, name) {
  try {
    return await import(name)
  } catch (error) {
    if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error
    context.skip(`${name} is not installed`)
    return undefined
  }
}
